"""Like the no_trainer examples of Hugging Face: dictionaries as batches, a collate function, decay
groups, accumulated gradients, steps counted, a progress bar, perplexity."""
import math
import random
from dataclasses import dataclass

import torch
from torch import nn
from torch.optim import AdamW
from torch.utils.data import DataLoader, Dataset


@dataclass
class TrainingArguments:
    per_device_train_batch_size: int = 4
    gradient_accumulation_steps: int = 2
    learning_rate: float = 5e-3
    weight_decay: float = 0.01
    num_train_epochs: int = 2
    logging_steps: int = 2
    seed: int = 42


class Tokens(Dataset):
    def __init__(self, n, seed):
        g = torch.Generator().manual_seed(seed)
        self.rows = torch.randint(0, 20, (n, 9), generator=g)

    def __len__(self):
        return len(self.rows)

    def __getitem__(self, i):
        return {"input_ids": self.rows[i], "labels": self.rows[i]}


def data_collator(features):
    batch = {k: torch.stack([f[k] for f in features]) for k in features[0]}
    batch["attention_mask"] = torch.ones_like(batch["input_ids"])
    return batch


class Output(dict):
    __getattr__ = dict.__getitem__


class TinyLM(nn.Module):
    def __init__(self, vocab=20, width=16):
        super().__init__()
        self.embed = nn.Embedding(vocab, width)
        self.norm = nn.LayerNorm(width)
        self.rnn = nn.GRU(width, width, batch_first=True)
        self.head = nn.Linear(width, vocab, bias=False)

    def forward(self, input_ids, attention_mask=None, labels=None):
        hidden, _ = self.rnn(self.norm(self.embed(input_ids)))
        logits = self.head(hidden)
        loss = None
        if labels is not None:
            loss = nn.functional.cross_entropy(
                logits[:, :-1].reshape(-1, logits.size(-1)), labels[:, 1:].reshape(-1))
        return Output(loss=loss, logits=logits)


def set_seed(seed):
    random.seed(seed)
    torch.manual_seed(seed)


def main():
    args = TrainingArguments()
    set_seed(args.seed)
    device = torch.device("cuda:0" if torch.cuda.is_available() else "cpu")
    train_dataset, eval_dataset = Tokens(64, 1), Tokens(16, 2)
    train_dataloader = DataLoader(train_dataset, shuffle=True, collate_fn=data_collator,
                                  batch_size=args.per_device_train_batch_size)
    eval_dataloader = DataLoader(eval_dataset, collate_fn=data_collator, batch_size=8)
    model = TinyLM()
    model.to(device)
    no_decay = ["bias", "norm.weight"]
    optimizer_grouped_parameters = [
        {"params": [p for n, p in model.named_parameters()
                    if not any(nd in n for nd in no_decay)], "weight_decay": args.weight_decay},
        {"params": [p for n, p in model.named_parameters()
                    if any(nd in n for nd in no_decay)], "weight_decay": 0.0},
    ]
    optimizer = AdamW(optimizer_grouped_parameters, lr=args.learning_rate)
    updates = math.ceil(len(train_dataloader) / args.gradient_accumulation_steps)
    max_steps = args.num_train_epochs * updates
    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.5, total_iters=max_steps)
    completed_steps = 0
    for epoch in range(args.num_train_epochs):
        model.train()
        total_loss = 0
        for step, batch in enumerate(train_dataloader):
            batch = {k: v.to(device) for k, v in batch.items()}
            outputs = model(**batch)
            loss = outputs.loss
            total_loss += loss.detach().float()
            loss = loss / args.gradient_accumulation_steps
            loss.backward()
            if step % args.gradient_accumulation_steps == 0 or step == len(train_dataloader) - 1:
                optimizer.step()
                scheduler.step()
                optimizer.zero_grad()
                completed_steps += 1
            if completed_steps >= max_steps:
                break
        model.eval()
        losses = []
        for step, batch in enumerate(eval_dataloader):
            batch = {k: v.to(device) for k, v in batch.items()}
            with torch.no_grad():
                outputs = model(**batch)
            losses.append(outputs.loss.repeat(batch["input_ids"].size(0)))
        losses = torch.cat(losses)
        perplexity = math.exp(torch.mean(losses))
        print(f"epoch {epoch}: perplexity: {perplexity:.8f} "
              f"train_loss: {total_loss.item() / len(train_dataloader):.8f}")
    torch.save(model.state_dict(), "pytorch_model.bin")


if __name__ == "__main__":
    main()
