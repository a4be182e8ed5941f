package text

import "strings"

// maxWord bounds the compared words in bytes, because the comparison is quadratic.
const maxWord = 64

// Nearest returns the candidate most similar to word: at most one edit, or one in three characters; "" if none is. Case
// and separators are ignored: maxDepth, max-depth and MAX_DEPTH are the same.
func Nearest(word string, candidates []string) string {
	if word == "" || len(word) > maxWord {
		return ""
	}
	best, limit := "", 1+max(1, len(word)/3)
	for _, c := range candidates {
		if d := distance(fold(word), fold(c)); d < limit {
			best, limit = c, d
		}
	}
	return best
}

var separators = strings.NewReplacer("_", "", "-", "", " ", "")

func fold(s string) string { return separators.Replace(strings.ToLower(s)) }

// distance counts the insertions, deletions, replacements and swaps of neighbours between a and b, both cut to
// maxWord bytes.
func distance(a, b string) int {
	a, b = a[:min(len(a), maxWord)], b[:min(len(b), maxWord)]
	var rows [3][maxWord + 1]int // row i-2, row i-1, row i
	before, last, this := &rows[0], &rows[1], &rows[2]
	for j := range len(b) + 1 {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		this[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			this[j] = min(last[j]+1, this[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				this[j] = min(this[j], before[j-2]+1)
			}
		}
		before, last, this = last, this, before
	}
	return last[len(b)]
}
