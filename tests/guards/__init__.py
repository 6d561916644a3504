"""The lines of code that keep labels from vanishing, each with a test that fails without it.

`python -m tests.guards [WORD…]` breaks them one by one in a copy of the tree and shows that the test notices; with
words, only guards whose file or test contains one. `tests/guards/test_guards.py` checks that the list fits the code.
"""
