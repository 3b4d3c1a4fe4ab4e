"""`mtkit train`: a config in, a trained translator in its run folder out."""

from mtkit.cli.options import ConfigOption, SetOption


def train(config_path: ConfigOption, overrides: SetOption = None) -> None:
    """Train a translator, or go on where it stopped.

    Results are in the config's run_dir; the folder of the finished model is printed.
    """
    from mtkit.config.loading import load_config

    config = load_config(config_path, overrides or [])

    from mtkit.training import trainer  # after the config's checks: importing torch takes a second

    print(trainer.train(config).bundle)
