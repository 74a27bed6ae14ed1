"""The keys of `changefeeds.yaml`: what each takes, and how they become the model."""
