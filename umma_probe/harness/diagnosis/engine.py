def diagnose(trial, again, findings):
    return None
