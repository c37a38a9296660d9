"""Records, queries and migrations: the one room that speaks SQL."""
