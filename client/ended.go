package client

// EndedBy gives how an attempt ended whose function returned err, which is not nil,
// as Do has it: by what oncekeeper.Final, NotApplied and RolledBack said of it, and
// as unknown otherwise. An error of this service in it is never final.
func EndedBy(err error) Ended { return endedBy(err) }
