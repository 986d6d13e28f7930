"""Documents: paragraphs of sentences, markup, placeholders and file formats around the text that a model reads. A
`Passage` is a text whose sentences are translated and put together again; a document is a file of passages."""
