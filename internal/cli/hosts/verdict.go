package hosts

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/proc/containment/sweep"
	"github.com/exthost/exthost/status"
)

// Sentence returns the verdict about a host for a terminal.
func Sentence(v status.Verdict) string { return console.Safe(console.NearbyText(v.Text)) }

// ColourOf returns the colour of the word of a verdict.
func ColourOf(w status.Word) console.Colour {
	switch w {
	case status.Ready:
		return console.Green
	case status.Degraded:
		return console.Yellow
	}
	return console.Red
}

// Killed is the cause of the error of [Find] if the last host of the directory was killed.
type Killed struct{ daemon.Killed }

// Error describes the end of the host, and what it has left.
func (k *Killed) Error() string {
	when, layout := "at ", time.TimeOnly
	if !k.Exact {
		when = "after "
	}
	at := k.At.Local()
	if now := time.Now(); at.YearDay() != now.YearDay() || at.Year() != now.Year() {
		layout = time.DateTime
	}
	text := fmt.Sprintf("pid %d was killed or crashed %s%s", k.PID, when, at.Format(layout))
	var left []string
	for _, f := range sweep.Find(k.Marks) {
		left = append(left, strconv.Itoa(f.PID)+" ("+f.Name+")")
	}
	switch {
	case left != nil:
		text += "; of its extensions still run: " + strings.Join(left, ", ")
	case k.Marks.Last != 0:
		text += "; its extensions have ended"
	}
	if log := cmp.Or(k.Log, k.LogCopy); log != "" {
		text += "; its log is " + console.NearbyPath(log)
	}
	return text
}
