package plant

// Differences compares a plant with the stored plant of the same id. It returns nil if their content is the same,
// otherwise an *Error with every member that differs. The error does not contain the stored values, because a client
// that may create plants may not read them.
func Differences(sent, stored Plant) error {
	if sent == stored {
		return nil
	}
	var faults Faults
	if sent.Name != stored.Name {
		faults.Add(CodeDifferentName, "a plant with this id is stored with a different name")
	}
	if sent.Tag != stored.Tag {
		faults.Add(CodeDifferentTag, "a plant with this id is stored with "+tagDifference(sent.Tag, stored.Tag))
	}
	return faults.Err()
}

func tagDifference(sent, stored Tag) string {
	switch {
	case !stored.present:
		return "no tag"
	case !sent.present:
		return "a tag"
	default:
		return "a different tag"
	}
}
