"""The four tokens every vocabulary begins with; text, models and search agree on their numbers here."""

PAD_ID, UNK_ID, BOS_ID, EOS_ID = 0, 1, 2, 3
