package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/exthost/exthost"
	"github.com/exthost/exthost/internal/rawjson"
)

func (a *app) logsCommand() *cobra.Command {
	var follow bool
	var level string
	var last int
	cmd := &cobra.Command{
		Use:   "logs [ID]",
		Short: "Show the latest log of the running exthost, with the stderr of its extensions",
		Long: "Show the latest records of the log of the exthost that serves this directory, or those\n" +
			"about one extension or policy:NAME, the lines of its stderr among them; -f goes on with new ones. It keeps\n" +
			"the last 256 of each extension, info and above; debug is there only with -f.",
		Example: "  exthost logs -f notes --level debug\n  exthost logs --level error -o json",
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return nil
			}
			return one("the id of one extension, or policy:NAME")(c, args)
		},
		ValidArgsFunction: a.completeExtension,
		RunE: func(cmd *cobra.Command, args []string) error {
			if err := a.jsonOnly(cmd); err != nil {
				return err
			}
			if !slices.Contains(logLevels, level) {
				return usagef("", "--level %q: there is %s", level, strings.Join(logLevels, ", "))
			}
			if last < 0 {
				return usagef("", "--last %d: there is no such number of records", last)
			}
			query := url.Values{"level": {level}, "follow": {strconv.FormatBool(follow)}}
			if cmd.Flags().Changed("last") {
				query.Set("last", strconv.Itoa(last))
			}
			return a.logs(cmd.Context(), query, args)
		},
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new records until Ctrl-C or the end of the host")
	cmd.Flags().StringVar(&level, "level", "info", "only this `LEVEL` and above: "+strings.Join(logLevels, ", "))
	cmd.Flags().IntVarP(&last, "last", "n", 0, "begin with the last `N` records (default: all that are kept)")
	completeFlag(cmd, "level", logLevels)
	return cmd
}

func (a *app) logs(ctx context.Context, query url.Values, ids []string) error {
	r, err := a.running(ctx)
	if err != nil {
		return err
	}
	if len(ids) > 0 {
		s, err := r.status(ctx)
		if err != nil {
			return err
		}
		if _, err := findWorker(s, ids[0]); err != nil {
			return err
		}
		query.Set("extension", ids[0])
	}
	return r.follow(ctx, "/api/v1/logs?"+query.Encode(), a.printRecord)
}

// follow hands the data of each event of a stream to show, until the stream or ctx
// ends, as following does.
func (r *running) follow(ctx context.Context, path string, show func(data []byte) error) error {
	stream, err := r.open(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer stream.Close()
	lines := bufio.NewReader(stream)
	for {
		line, err := lines.ReadString('\n')
		if ctx.Err() != nil || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			return nil // Ctrl-C, or the end of the host
		}
		if err != nil {
			return err
		}
		if data, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "data: "); ok {
			if err := show([]byte(data)); err != nil {
				return err
			}
		}
	}
}

// printRecord prints one record of the log.
func (a *app) printRecord(data []byte) error {
	var record exthost.LogRecord
	if err := json.Unmarshal(data, &record); err != nil {
		return fmt.Errorf("a log record that cannot be read: %w", err)
	}
	if record.Lost > 0 {
		fmt.Fprintf(a.err, "%s: %d records were lost, this was too slow for them\n", a.paint(yellow, "warn"), record.Lost)
	}
	text := safeJSON(data) // one record, one line
	if a.flags.output == "table" {
		text = logLine(&record)
	}
	_, err := fmt.Fprintln(a.out, text)
	return err
}

// logLine is a record for a person.
func logLine(r *exthost.LogRecord) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %-5s ", r.Time.Local().Format(stampOf(r.Time)), r.Level)
	if r.Extension != "" {
		b.WriteString(r.Extension + ": ")
	}
	b.WriteString(r.Message)
	for key, value := range rawjson.Members(r.Attrs) {
		text := string(value)
		var s string
		if json.Unmarshal(value, &s) == nil && s != "" && !strings.ContainsAny(s, " \t\"=") {
			text = s
		}
		fmt.Fprintf(&b, " %s=%s", key, text)
	}
	return safe(b.String())
}

// stampOf is how a time is written for a person: without the day when that is today.
func stampOf(t time.Time) string {
	const stamp = "15:04:05.000"
	if y, m, d := t.Local().Date(); time.Date(y, m, d, 0, 0, 0, 0, time.Local) != today() {
		return "2006-01-02 " + stamp
	}
	return stamp
}

func today() time.Time {
	y, m, d := time.Now().Date()
	return time.Date(y, m, d, 0, 0, 0, 0, time.Local)
}
