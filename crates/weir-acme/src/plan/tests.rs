//! What is next for a host, in tables and over virtual weeks.
