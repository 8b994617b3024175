"""Adapters: one file for each agent framework. Import the one you need; it imports its framework.

Each is written over ``neutral`` with four functions: which call is it (identify), make it (invoke), did it fail, and
how does the framework want to see the answer (render).
"""
