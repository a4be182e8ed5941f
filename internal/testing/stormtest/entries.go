package stormtest

import (
	"io"
	"strings"
)

// entryEnd ends an entry. A line without it was cut.
const entryEnd = ";"

// AddEntry writes an entry to the file in which a process that is killed at any moment notes
// what it does: in one write and on a line of its own. The entry has no line break. The kernel
// may cut a write at a page's end when the process is killed, so the rest of a line may be
// missing, and the next process continues there.
func AddEntry(w io.Writer, entry string) error {
	_, err := io.WriteString(w, "\n"+entry+entryEnd+"\n")
	return err
}

// WholeEntries returns the entries of a file that were written to their end.
func WholeEntries(file string) (list []string) {
	for line := range strings.Lines(file) {
		if entry, ok := strings.CutSuffix(strings.TrimSuffix(line, "\n"), entryEnd); ok {
			list = append(list, entry)
		}
	}
	return list
}
