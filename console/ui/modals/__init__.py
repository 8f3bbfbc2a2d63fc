"""Questions: small screens over the cockpit that end with an answer."""
