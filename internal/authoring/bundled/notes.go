package bundled

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/exthost/exthost/internal/file"
	"github.com/exthost/exthost/sdk"
)

type note struct {
	ID      int       `json:"id"`
	Text    string    `json:"text"`
	Tags    []string  `json:"tags,omitempty"`
	Created time.Time `json:"created"`
}

// noteList is the result of search.
type noteList struct {
	Notes []note `json:"notes"`
	Total int    `json:"total" jsonschema_description:"How many match, shown or not"`
}

// notebook stores all notes in one JSON file.
type notebook struct {
	mu   sync.Mutex
	path string
}

func notes() *sdk.Extension {
	book := &notebook{}
	x := sdk.New("0.1.0")
	x.OnSetup(func(_ context.Context, s sdk.Setup) error {
		book.path = filepath.Join(s.StateDir, "notes.json")
		_, err := book.load()
		return err
	})
	sdk.AddTool(x, sdk.Tool{Name: "add", Description: "Remember something for later conversations."},
		func(_ context.Context, in struct {
			Text string   `json:"text" jsonschema:"minLength=1,maxLength=65536" jsonschema_description:"What to remember"`
			Tags []string `json:"tags,omitempty" jsonschema:"maxItems=16" jsonschema_description:"Words to find it by"`
		}) (note, error) {
			return book.add(in.Text, in.Tags)
		})
	sdk.AddTool(x, sdk.Tool{
		Name:        "search",
		Description: "Find remembered notes, the newest first. Without a query it lists them.",
		ReadOnly:    true,
	},
		func(_ context.Context, in struct {
			Query string `json:"query,omitempty" jsonschema_description:"Words that must all occur in the text or the tags, in any case"`
			Limit int    `json:"limit,omitempty" jsonschema:"minimum=1,maximum=200" jsonschema_description:"At most this many, default 20"`
		}) (noteList, error) {
			return book.search(in.Query, cmp.Or(in.Limit, 20))
		})
	sdk.AddTool(x, sdk.Tool{Name: "delete", Description: "Forget one note.", Destructive: true, Idempotent: true},
		func(_ context.Context, in struct {
			ID int `json:"id" jsonschema_description:"The note's id"`
		}) (string, error) {
			return book.delete(in.ID)
		})
	return x
}

func (b *notebook) add(text string, tags []string) (note, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.load()
	if err != nil {
		return note{}, err
	}
	n := note{ID: 1, Text: text, Tags: tags, Created: time.Now().UTC().Truncate(time.Second)}
	if len(all) > 0 {
		n.ID = all[len(all)-1].ID + 1
	}
	return n, b.save(append(all, n))
}

func (b *notebook) search(query string, limit int) (noteList, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.load()
	if err != nil {
		return noteList{}, err
	}
	found := noteList{Notes: []note{}}
	words := strings.Fields(strings.ToLower(query))
	for _, n := range slices.Backward(all) {
		text := strings.ToLower(n.Text + " " + strings.Join(n.Tags, " "))
		if slices.ContainsFunc(words, func(w string) bool { return !strings.Contains(text, w) }) {
			continue
		}
		found.Total++
		if len(found.Notes) < limit {
			found.Notes = append(found.Notes, n)
		}
	}
	return found, nil
}

func (b *notebook) delete(id int) (string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all, err := b.load()
	if err != nil {
		return "", err
	}
	kept := slices.DeleteFunc(all, func(n note) bool { return n.ID == id })
	if len(kept) == len(all) {
		return fmt.Sprintf("There was no note %d.", id), nil
	}
	return fmt.Sprintf("Forgot note %d.", id), b.save(kept)
}

func (b *notebook) load() (all []note, err error) {
	data, err := os.ReadFile(b.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(data, &all); err != nil {
		return nil, fmt.Errorf("%s is damaged, move it away to start afresh: %w", b.path, err)
	}
	return all, nil
}

// save replaces the file atomically, so that a crash leaves either version.
func (b *notebook) save(all []note) error {
	data, err := json.MarshalIndent(all, "", " ")
	if err != nil {
		return err
	}
	return file.WritePrivate(b.path, data)
}
