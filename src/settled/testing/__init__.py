"""For tests: a simulated world in which the rules of this library are judged by ground truth."""
