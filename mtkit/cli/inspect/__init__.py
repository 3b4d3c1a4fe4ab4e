"""`mtkit inspect`: pictures and figures of what is inside a model, one file a subcommand."""

import typer

from mtkit.cli.inspect.attention import attention
from mtkit.cli.inspect.embeddings import embeddings
from mtkit.cli.inspect.errors import errors
from mtkit.cli.inspect.masks import masks
from mtkit.cli.inspect.model import model
from mtkit.cli.inspect.positions import positions
from mtkit.cli.inspect.saliency import saliency
from mtkit.cli.inspect.steps import steps

inspect = typer.Typer(
    no_args_is_help=True, help="See inside a model: what the tutorials draw, drawn of yours.", rich_markup_mode=None
)
inspect.command(short_help="The decoding loop, step by step.")(steps)
inspect.command(short_help="What each head of each layer looks at.")(attention)
inspect.command(short_help="The nearest tokens of words, and a map.")(embeddings)
inspect.command(short_help="How positions are encoded.")(positions)
inspect.command(short_help="Causal and padding masks, and proof that padding changes nothing.")(masks)
inspect.command(short_help="Layers, shapes, parameters, multiply-adds.")(model)
inspect.command(short_help="Which source tokens each output token leans on.")(saliency)
inspect.command(short_help="The pairs with the highest loss, and a sentence's nearest neighbours.")(errors)
