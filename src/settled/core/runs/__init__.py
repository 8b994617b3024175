"""Runs: entered, joined, left, undone and rewound."""
