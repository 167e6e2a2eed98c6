"""The principal that Envelope requests carry (``DefaultKafkaPrincipalBuilder.java``)."""

from dissectors.schema import Bool, Message, String

DefaultPrincipalData = Message(
    "DefaultPrincipalData", None, "data", "0", "0+",
    "type" / String * "principal type, normally User",
    "name" / String * "principal name",
    "token_authenticated" / Bool * "true = logged in with a delegation token",
)
