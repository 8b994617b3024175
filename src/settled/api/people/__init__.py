"""What people and schedules do with what was left open."""
