"""Jobs of both ends of a load on connections, their meeting, and what is checked."""
