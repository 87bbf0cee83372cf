"""Parts of train_pusht.py: the task, the loaders, the policy, the figure."""
