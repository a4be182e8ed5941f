package operate

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/local/daemon"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/protocol"
	"github.com/exthost/exthost/status"
)

// Logs returns exthost logs, which shows the log of the running host.
func Logs(c *console.Console) *cobra.Command {
	var follow, wire, whole bool
	var level string
	var last int
	cmd := &cobra.Command{
		Use:         "logs [ID]",
		Short:       "Show the log, with the stderr of the extensions",
		Annotations: console.AsksHost,
		Long: "Show the latest records of the log of the host of this directory, or those of\n" +
			"one extension or policy:NAME, with its stderr; -f follows new ones. The host keeps the last\n" +
			"256 of each extension, info and above; debug is shown only with -f. Of a host that does not\n" +
			"answer or was killed, it shows the file of its log, if there is one.\n\n" +
			"--wire shows the messages between the host and its extensions instead, as they pass, a line each:\n" +
			"> marks messages of the host, < those of the extension. Secrets that the extension was given are\n" +
			"masked. For an extension that runs a command for each call, the command and its output are shown.\n" +
			"Ctrl-C ends it.",
		Example: "  exthost logs -f notes --level debug\n  exthost logs --level error -o json\n  " +
			"exthost logs --wire notes",
		SuggestFor:        []string{"log", "tap"},
		Args:              console.AtMostOne("the id of one extension, or policy:NAME"),
		ValidArgsFunction: hosts.CompleteExtension(c),
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := c.JSONOnly(cmd); err != nil {
				return err
			}
			switch {
			case wire:
				return hosts.Tap(cmd.Context(), c, args, whole)
			case whole:
				return console.Usagef(strings.Join(append([]string{"exthost logs --wire --whole"}, args...), " "),
					"--whole is for --wire; other lines are never cut")
			}
			if err := console.OneOf("exthost logs --level info", "--level", level, console.LogLevels); err != nil {
				return err
			}
			if last < 0 {
				return console.Usagef("", "--last %d: there is no such number of records", last)
			}
			query := url.Values{"level": {level}, "follow": {strconv.FormatBool(follow)}}
			if cmd.Flags().Changed("last") {
				query.Set("last", strconv.Itoa(last))
			}
			return logs(cmd.Context(), c, query, args)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow new records until Ctrl-C or the end of the host")
	cmd.Flags().StringVar(&level, "level", "info",
		"only this `LEVEL` and above: "+strings.Join(console.LogLevels, ", "))
	cmd.Flags().IntVarP(&last, "last", "n", 0, "begin with the last `N` records (default: all that are kept)")
	cmd.Flags().BoolVar(&wire, "wire", false, "show the messages between host and extensions")
	cmd.Flags().BoolVar(&whole, "whole", false, "with --wire: do not cut lines to the width of the terminal")
	cmd.MarkFlagsMutuallyExclusive("wire", "level")
	cmd.MarkFlagsMutuallyExclusive("wire", "last")
	console.CompleteFlag(cmd, "level", console.LogLevels)
	return cmd
}

func logs(ctx context.Context, c *console.Console, query url.Values, ids []string) error {
	r, err := hosts.Find(ctx)
	if killed, ok := errors.AsType[*hosts.Killed](err); ok {
		return fileLogs(c, killed.Info, query, ids, err)
	}
	if err != nil {
		return err
	}
	err = runningLogs(ctx, c, r, query, ids)
	if console.ExitCode(err) == console.ExitCanceled && ctx.Err() == nil { // the host does not answer
		return fileLogs(c, r.Info, query, ids, err)
	}
	return err
}

// runningLogs prints the log that the host keeps in memory.
func runningLogs(ctx context.Context, c *console.Console, r *hosts.Running, query url.Values, ids []string,
) (err error) {
	if len(ids) > 0 {
		x, err := r.Worker(ctx, ids[0])
		if err != nil {
			return err
		}
		if there := x.NotHere("logs"); there != nil {
			c.Info("the log has what this host says of it: %s", protocol.Reason(there))
		}
		query.Set("extension", ids[0])
	}
	records := 0
	err = r.Follow(ctx, "/api/v1/logs?"+query.Encode(), func(data []byte) error {
		records++
		return printRecord(c, data)
	})
	if err == nil && records == 0 && query.Get("follow") != "true" && query.Get("last") != "0" {
		if len(ids) > 0 {
			c.Info("the log has no line of %s and of level %s; the calls are in exthost status %s", ids[0],
				query.Get("level"), ids[0])
		} else {
			c.Info("the log has no line of level %s", query.Get("level"))
		}
	}
	return err
}

func printRecord(c *console.Console, data []byte) error {
	var record status.LogRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return fmt.Errorf("a log record that cannot be read: %w", err)
	}
	if record.Lost > 0 {
		c.Warn("%d records were lost, because this command read them too slowly", record.Lost)
	}
	text := console.SafeJSON(data) // one record, one line
	if c.Output == "table" {
		text = logLine(c, &record)
	}
	_, err := fmt.Fprintln(c.Out, text)
	return err
}

func logLine(c *console.Console, r *status.LogRecord) string {
	var b strings.Builder
	if r.Extension != "" {
		b.WriteString(r.Extension + ": ")
	}
	b.WriteString(r.Message)
	for key, value := range rawjson.Members(r.Attrs) {
		text := string(value)
		if name, ok := strings.CutSuffix(key, "_ms"); ok {
			var took protocol.Duration
			if json.Unmarshal(value, &took) == nil {
				key, text = name, took.String()
			}
		}
		var s string
		if json.Unmarshal(value, &s) == nil && s != "" && !strings.ContainsAny(s, " \t\"=") {
			text = s
		}
		fmt.Fprintf(&b, " %s=%s", key, text)
	}
	level := fmt.Sprintf("%-5s", r.Level)
	switch {
	case r.Level >= slog.LevelError:
		level = c.PaintOut(console.Red, level)
	case r.Level >= slog.LevelWarn:
		level = c.PaintOut(console.Yellow, level)
	}
	return c.PaintOut(console.Dim, console.Stamp(r.Time)) + " " + level + " " + console.Safe(b.String())
}

const (
	fileRecords = 256     // records of a file shown without --last
	fileBytes   = 4 << 20 // bytes read at the end of a file
)

// fileLogs prints the last records in the log file of a host that does not answer or was killed. It returns silent, the
// error that says so.
func fileLogs(c *console.Console, host daemon.Info, query url.Values, ids []string, silent error) error {
	e, _ := errors.AsType[*console.Error](silent)
	path := cmp.Or(host.Log, host.LogCopy)
	if path == "" {
		e.Hint += "; " + stderrOf(host.PID)
		return e
	}
	tail, err := readTail(path, fileBytes)
	if err != nil {
		e.Text += "; and its log cannot be read: " + err.Error()
		return e
	}
	c.Warn("%s; this is the end of %s", e.Text, path)
	last, err := strconv.Atoi(query.Get("last"))
	if err != nil {
		last = fileRecords
	}
	for _, record := range lastRecords(tail, console.Level(query.Get("level")), ids, last) {
		data, _ := json.Marshal(record) // it was decoded from JSON
		if err := printRecord(c, data); err != nil {
			return err
		}
	}
	if e.Text = fmt.Sprintf("the running host (pid %d) does not answer", host.PID); e.Cause != nil {
		e.Text = fmt.Sprintf("pid %d does not run any more", host.PID)
	}
	return e
}

// stderrOf describes where the stderr of a process goes. Without log.file, the host's log is there.
func stderrOf(pid int) string {
	to, err := os.Readlink(fmt.Sprintf("/proc/%d/fd/2", pid))
	switch {
	case errors.Is(err, fs.ErrNotExist): // it has ended
		return fmt.Sprintf("its log went to its stderr, of which journalctl _PID=%d may have it, and log.file keeps a "+
			"copy of the next one", pid)
	case strings.HasPrefix(to, "socket:"):
		return fmt.Sprintf("journalctl _PID=%d may have its log", pid)
	case strings.HasPrefix(to, "/") && to != os.DevNull:
		return "its log goes to " + to
	}
	return "its log goes to its stderr, and log.file keeps a copy of the next one"
}

// readTail reads the whole lines in the last bytes of a file.
func readTail(path string, most int64) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil {
		return nil, err
	}
	data := make([]byte, min(size, most))
	n, err := f.ReadAt(data, size-int64(len(data)))
	if data = data[:n]; err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	if size > most {
		data = data[bytes.IndexByte(data, '\n')+1:]
	}
	return data, nil
}

// lastRecords returns the last records at level or above, oldest first. ids may name one extension or policy:NAME.
func lastRecords(lines []byte, level slog.Level, ids []string, last int) (records []status.LogRecord) {
	for _, line := range slices.Backward(bytes.Split(lines, []byte{'\n'})) {
		if len(records) == last {
			break
		}
		record, ok := parseRecord(line)
		if ok && record.Level >= level && (len(ids) == 0 || record.Extension == ids[0]) {
			records = append(records, record)
		}
	}
	slices.Reverse(records)
	return records
}

// parseRecord parses a record written by [slog.JSONHandler].
func parseRecord(line []byte) (record status.LogRecord, ok bool) {
	object, err := rawjson.Object(line)
	if err != nil {
		return record, false
	}
	var about struct{ Policy string }
	if json.Unmarshal(object, &record) != nil || record.Time.IsZero() {
		return record, false
	}
	_ = json.Unmarshal(object, &about) // an attribute of another type is no name
	if record.Extension == "" && about.Policy != "" {
		record.Extension = status.PolicyPrefix + about.Policy
	}
	record.Attrs = object
	for _, key := range []string{"time", "level", "msg", "extension", "policy"} {
		record.Attrs = rawjson.Delete(record.Attrs, key)
	}
	if bytes.Equal(record.Attrs, []byte("{}")) {
		record.Attrs = nil
	}
	return record, true
}
