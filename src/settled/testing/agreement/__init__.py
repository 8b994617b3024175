"""A journal and the memory journal, driven with the same transitions, must give the same answers and records.

class MyAgreement(Agreement):
    def open_journal(self):
        return MyJournal(..., clock=self.clock)

TestAgreement = MyAgreement.TestCase
"""

from settled.testing.agreement.machine import Agreement

__all__ = ["Agreement"]
