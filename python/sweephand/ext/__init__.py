"""Extensions: rarer formats, other libraries' faces, and what follows a run."""
