"""What train_pusht.py is made of: the task, the loaders, the policy, the pictures."""
