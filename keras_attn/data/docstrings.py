SPLITS = ("train", "validation")
def fingerprint(): return ""
