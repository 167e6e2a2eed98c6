"""Who the clients of a capture are: their libraries, and the settings that their requests and rhythms give away."""
