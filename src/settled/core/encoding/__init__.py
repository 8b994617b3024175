"""Values as bytes: what is stored, the canonical form, and the keys made of it."""
