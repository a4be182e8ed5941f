package packages

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/cli/console"
	"github.com/exthost/exthost/internal/cli/hosts"
	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/internal/local/clientconfig"
)

// known lists the known files of other programs on this machine. On a terminal it asks which of the files to import.
func (f importing) known(ctx context.Context, c *console.Console, in io.Reader) error {
	home, _ := os.UserHomeDir() // without it, only files of the project are found
	files := clientconfig.Places(".", home)
	if len(files) == 0 {
		return &console.Error{
			Code: console.ExitNotFound,
			Text: "no file of a known program was found here or in the home directory",
			Hint: "exthost import FILE; " + strings.Join(clientconfig.Clients(), ", ") + " are known",
		}
	}
	rows := [][]string{{"", "FILE", "PROGRAM", "SERVERS"}}
	var found []imported
	for i, path := range files {
		row := []string{strconv.Itoa(i + 1), path, "", ""}
		one, err := f.read(path)
		if err != nil {
			row[2] = "no servers"
			one = imported{File: path, Servers: []importServer{}, Notes: []importNote{}, Files: []importFile{}}
		} else {
			row[2], row[3] = one.Client, strconv.Itoa(len(one.Servers))
		}
		rows, found = append(rows, row), append(found, one)
	}
	if err := c.Print(console.Document{Kind: "import", Value: found, Names: files, Rows: rows}); err != nil {
		return err
	}
	if !console.IsTerminal(in) || c.Output != "table" {
		fmt.Fprintln(c.Err, "next: exthost import FILE shows what would be written; --write writes it")
		return nil
	}
	fmt.Fprint(c.Err, "Import which? [numbers, nothing for none] ")
	line, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	var chosen []string
	for _, word := range strings.FieldsFunc(line,
		func(r rune) bool { return r == ',' || r == ' ' || r == '\n' || r == '\r' }) {
		n, err := strconv.Atoi(word)
		if err != nil || n < 1 || n > len(files) {
			return console.Usagef("exthost import FILE", "%q is none of the numbers 1 to %d", word, len(files))
		}
		chosen = append(chosen, files[n-1])
	}
	if len(chosen) == 0 {
		return nil
	}
	f.write = true
	return f.run(ctx, c, chosen)
}

// writeFiles writes the files. If a configuration file exists, entries are added to it. If an extension exists, it is
// left as it is, and reported if it differs.
func (f importing) writeFiles(ctx context.Context, c *console.Console, all []imported) error {
	var refused []string
	written, err := f.addPlugins(ctx, c, all)
	if err != nil {
		return err
	}
	configured := hosts.ConfigurationTrusted(c)
	from := map[string]string{} // source file by target path
	for _, one := range slices.DeleteFunc(slices.Clone(all), imported.isPlugin) {
		for _, file := range one.Files {
			other := from[file.Path]
			from[file.Path] = one.File
			if other != "" && !file.config {
				c.Note(one.File, true, fmt.Sprintf("%s comes from %s already; --to writes elsewhere", file.Path, other))
				continue
			}
			locks := f.lock && !file.config && downloads([]byte(file.Text))
			var added bool
			var err error
			if locks {
				added, err = f.lockFile(ctx, c, file)
			} else {
				added, err = f.addFile(ctx, c, file, configured)
			}
			switch {
			case err != nil:
				return err
			case added:
				written = append(written, file.Path)
				one.tellRuns(c, file)
			case locks:
				refused = append(refused, filepath.Base(filepath.Dir(file.Path)))
			}
		}
	}
	text := console.Plural(len(written), "file") + " written"
	if len(written) > 0 {
		text += ": " + strings.Join(written, ", ")
	}
	if _, err := fmt.Fprintf(c.Err, "%s\n  next: exthost check\n", console.Safe(text)); err != nil ||
		len(refused) == 0 {
		return err
	}
	return &console.Error{
		Code: console.ExitFailed,
		Text: console.Safe("not imported, because not locked: " + strings.Join(refused, ", ")),
		Hint: "without --lock they are imported as they are",
	}
}

// tellRuns prints what the servers of a file run or connect to, because --write is consent to run them.
func (one *imported) tellRuns(c *console.Console, file importFile) {
	for _, s := range one.Servers {
		if file.config || s.ID == filepath.Base(filepath.Dir(file.Path)) {
			fmt.Fprintf(c.Err, "%s %s\n", console.Safe(s.ID), console.Safe(s.Runs))
		}
	}
}

// lockFile adds the extension of a file so that it runs a locked package. It reports whether it added the extension.
func (f importing) lockFile(ctx context.Context, c *console.Console, file importFile) (bool, error) {
	id := filepath.Base(filepath.Dir(file.Path))
	forget, err := f.vault.keep(file.secrets) // before the extension is written, since a host may start it immediately
	if err != nil {
		return false, err
	}
	undo, err := file.disable(c)
	if err != nil {
		return false, errors.Join(err, forget())
	}
	err = addLocked(ctx, c, id, []byte(file.Text))
	if err == nil && len(file.secrets) > 0 {
		err = hosts.TrustFolder(ctx, c, filepath.Dir(file.Path), file.references()...)
	}
	if err == nil {
		return true, nil
	}
	if failed := errors.Join(undo(), forget()); failed != nil || ctx.Err() != nil {
		return false, errors.Join(err, failed)
	}
	c.Note(id, true, console.Describe(err))
	return false, nil
}

// trust records that the user trusts the imported file. It does that for a configuration file only if configured is
// set: the user trusted the previous content.
func (f importing) trust(ctx context.Context, c *console.Console, file importFile, configured bool) error {
	if !file.config {
		return hosts.TrustFolder(ctx, c, filepath.Dir(file.Path), file.references()...)
	}
	if configured {
		return hosts.TrustConfiguration(c)
	}
	return nil
}

// addFile writes one file and trusts it. It reports whether the file has changed. A file that could not be trusted
// becomes what it was, because the next import would take it for another's.
func (f importing) addFile(ctx context.Context, c *console.Console, add importFile, configured bool) (bool, error) {
	before, absent := os.ReadFile(add.Path)
	changed, err := f.writeFile(c, add)
	if err != nil || !changed {
		return false, err
	}
	err = f.trust(ctx, c, add, configured)
	switch {
	case err == nil:
		return true, nil
	case errors.Is(absent, fs.ErrNotExist):
		err = errors.Join(err, os.Remove(add.Path))
		_ = os.Remove(filepath.Dir(add.Path)) // it may hold other files
	default:
		err = errors.Join(err, file.WriteAtomic(add.Path, before))
	}
	return false, err
}

// writeFile writes one file. It reports whether the file has changed.
func (f importing) writeFile(c *console.Console, imported importFile) (changed bool, err error) {
	text := []byte(imported.Text)
	if err := file.CheckBelowHere(imported.Path); err != nil {
		return false, err
	}
	existing, err := os.ReadFile(imported.Path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return false, err
	case bytes.Equal(existing, text):
		return false, nil
	case !imported.config:
		c.Note(imported.Path, true, "it is there already and says something else; --to writes elsewhere")
		return false, nil
	default:
		var kept []string
		if text, kept, err = clientconfig.Merge(existing, text); err != nil {
			return false, &console.Error{
				Code: console.ExitInvalid,
				Text: fmt.Sprintf("%s: %v", imported.Path, err),
				Hint: "exthost import without --write prints the entries; --to writes elsewhere",
			}
		}
		for _, name := range kept {
			c.Note(imported.Path, true, name+" is there already, and stays as it is")
		}
	}
	if _, err := f.vault.keep(imported.secrets); err != nil {
		return false, err
	}
	if _, err := imported.disable(c); err != nil { // before it is written: a host that watches starts what it finds
		return false, err
	}
	if err := os.MkdirAll(filepath.Dir(imported.Path), 0o755); err != nil {
		return false, err
	}
	if f.secrets {
		return true, file.WritePrivate(imported.Path, text)
	}
	return true, file.WriteAtomic(imported.Path, text)
}

// disable disables the extension of the file if it is disabled in the imported file. undo restores the configuration.
func (file *importFile) disable(c *console.Console) (undo func() error, err error) {
	nothing := func() error { return nil }
	if file.disabled == "" {
		return nothing, nil
	}
	e, err := hosts.SetListed(c, "disabled", file.disabled, true)
	if err != nil {
		return nil, fmt.Errorf("%s is switched off in the file that it comes from, and could not be disabled: %w",
			file.disabled, err)
	}
	if !e.Changed {
		return nothing, nil
	}
	made, err := os.ReadFile(e.File)
	return func() error {
		if now, err := os.ReadFile(e.File); e.Created && err == nil && bytes.Equal(now, made) {
			return os.Remove(e.File)
		}
		_, err := hosts.SetListed(c, "disabled", file.disabled, false)
		return err
	}, err
}
