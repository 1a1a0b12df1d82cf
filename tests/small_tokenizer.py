"""A tiny WordPiece tokenizer, trained on a few lines here: enough to count with, no download."""

from __future__ import annotations

from pathlib import Path

from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

_LINES = (
    "The committee decided that the archive and the reading room open again in May, after the works are done.",
    "Employees ask the office before they travel; the office answers within three days, or it counts as agreed.",
    "Der Antrag wird vor der Reise gestellt und von dem Büro innerhalb von drei Tagen beantwortet.",
    "検索拡張生成は文書から答える。 검색은 빠르다. Поиск быстрый и точный.",
)


def write_tokenizer(path: Path, vocabulary: int = 400) -> Path:
    """Writes a tokenizer.json like MiniLM's: BERT's normalisation, special tokens, truncation and padding on."""
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]"))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=True)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece()
    special = ["[PAD]", "[UNK]", "[CLS]", "[SEP]"]
    trainer = trainers.WordPieceTrainer(vocab_size=vocabulary, special_tokens=special, show_progress=False)
    tokenizer.train_from_iterator(_LINES, trainer)
    tokenizer.post_processor = processors.TemplateProcessing(
        single="[CLS] $A [SEP]", special_tokens=[(word, tokenizer.token_to_id(word)) for word in ("[CLS]", "[SEP]")]
    )
    tokenizer.enable_truncation(16)
    tokenizer.enable_padding(length=16)
    tokenizer.save(str(path))
    return path
