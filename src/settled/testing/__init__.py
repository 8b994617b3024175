"""For tests of journals and of the library's rules.

``contract`` and ``agreement``: what every journal must do, for whoever writes one; ``records`` has what such tests are
made of. ``simulate`` plays the worlds of ``simulation``, and ``kill`` real processes that are killed: there the rules
are judged by ground truth.
"""
