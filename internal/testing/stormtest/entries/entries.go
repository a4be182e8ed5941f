// Package entries is the format of the files in which a process that is killed at any
// moment notes what it does. The kernel may cut a write at a page's end when the process
// is killed, so the rest of a line may be missing and the next process continues there.
package entries

import (
	"io"
	"strings"
)

// end ends an entry. A line without it was cut.
const end = ";"

// Add writes an entry, which has no line break, in one write and on a line of its own.
func Add(w io.Writer, entry string) error {
	_, err := io.WriteString(w, "\n"+entry+end+"\n")
	return err
}

// Whole returns the entries of a file that were written to their end.
func Whole(file string) (list []string) {
	for line := range strings.Lines(file) {
		if entry, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), end); ok {
			list = append(list, entry)
		}
	}
	return list
}
