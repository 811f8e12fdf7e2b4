"""Entry point of the `cuda-llm` command."""

from cuda_llm.cli.app import main

if __name__ == "__main__":
    main()
