"""TLS and SASL of the proxy: Kafka's client properties, OpenSSL contexts, and explanations of failures.

    properties, jaas    Kafka's own client configuration (--command-config) -> :class:`security.Security`
    stores, jks         PEM, PKCS #12, JKS and JCEKS files -> certificates and keys; certificates
    security            what a client needs to reach brokers, as plain data that is sent to the data plane
    contexts            ``ssl.SSLContext`` for each side, key logs
    authority           the local certificate authority, certificates by name
    sni                 the server name in a peeked ClientHello, names for brokers behind one port
    diagnosis           sentences that explain failures, or name the protocol spoken to the wrong port
    differences         sentences about what brokers will see differently

Files are read by the front process, which has time: ``properties`` and ``stores`` load the cryptographic library. The
data plane imports ``security``, ``contexts``, ``sni``, ``diagnosis`` and ``certificates``, which need only the standard
library and msgspec; the cryptographic library is loaded with ``authority``, which only TLS without a certificate of the
user's needs, or with the first certificate that ``diagnosis`` has to name.
"""
