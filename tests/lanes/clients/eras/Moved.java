// Before 4.3 the record classes are in org.apache.kafka.common.record; with this, Official.java can name both packages.
package org.apache.kafka.common.record.internal;

class Moved {}
