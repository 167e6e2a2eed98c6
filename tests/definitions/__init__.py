"""What Apache Kafka says of its messages and errors, kept so that every clone can hold kproxy's declarations to it.

Kafka publishes the definition of each message as JSON, with the versions that a release reads and writes. One release
does not know them all: 4.0 dropped the versions that only old clients use, and some versions changed their bytes
before their API was declared stable. So the facts are added up over the releases, from 2.2 (the first with the
definitions) to the newest; :data:`tests.definitions.facts.FOLDER` keeps them in a form of our own.

The tests of the declarations read the facts. ``python -m tests.definitions`` compares them with one more release of
Kafka, and adds it; CONTRIBUTING.md has the recipe.
"""
