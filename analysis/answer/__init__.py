"""Questions about a PrimFunc: lift, recognise, certify."""
