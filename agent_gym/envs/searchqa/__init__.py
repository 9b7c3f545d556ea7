"""Search QA: questions answered by searching a corpus, on published question sets or a generated world."""
