"""What ``gen`` asks for, and the answers that come: text, streams, types, relays, choices."""
