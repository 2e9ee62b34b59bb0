package config

// DidYouMean returns the end of a message about an unknown name: a suggestion of the nearest known name, or "".
func DidYouMean(name string, names []string) string {
	const nearMax = 2 // wrong characters, and at most a third of the name
	nearest, least := "", min(nearMax, len(name)/3)+1
	for _, known := range names {
		if d := distance(name, known); d < least {
			nearest, least = known, d
		}
	}
	if nearest == "" || nearest == name { // a known name that the caller refuses
		return ""
	}
	return " (did you mean " + nearest + "?)"
}

// distance returns the optimal string alignment distance: the number of bytes to insert, delete, replace or swap with
// the next byte.
func distance(a, b string) int {
	before, last := make([]int, len(b)+1), make([]int, len(b)+1) // the two rows above
	for j := range last {
		last[j] = j
	}
	for i := range len(a) {
		row := make([]int, len(b)+1)
		row[0] = i + 1
		for j := range len(b) {
			wrong := 1
			if a[i] == b[j] {
				wrong = 0
			}
			row[j+1] = min(last[j+1]+1, row[j]+1, last[j]+wrong)
			if i > 0 && j > 0 && a[i] == b[j-1] && a[i-1] == b[j] {
				row[j+1] = min(row[j+1], before[j-1]+1)
			}
		}
		before, last = last, row
	}
	return last[len(b)]
}
