package skills

import (
	"encoding/base64"
	"encoding/json"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/exthost/exthost/internal/text/rawjson"
)

// Scheme begins the URIs of skills.
const Scheme = "skill://"

// typeDirectory is the media type of a directory resource.
const typeDirectory = "inode/directory"

// Served is the skills of an extension as clients see them: their files are resources at
// skill://{extension}/{skill}/{path}. It is immutable; nil serves nothing.
type Served struct {
	*Set
	extension string
	entries   []Entry // in the order of Set.Skills
}

// Entry is a skill as skills/list and skills/get describe it.
type Entry struct {
	*Skill
	URI string          // of SKILL.md
	Raw json.RawMessage // the entry
	// Judged is Raw with the hidden text of the files: what the operator accepts when a skill was held for it.
	Judged json.RawMessage
}

// Serve returns the skills of set under the id of their extension; nil if it has none.
func Serve(extension string, set *Set) *Served {
	if set == nil || len(set.Skills) == 0 {
		return nil
	}
	s := &Served{Set: set, extension: extension}
	for _, k := range set.Skills {
		s.entries = append(s.entries, s.entry(k))
	}
	return s
}

// Entries returns the skills, sorted by name. The caller must not change them.
func (s *Served) Entries() []Entry {
	if s == nil {
		return nil
	}
	return s.entries
}

func (s *Served) uri(k *Skill, file string) string {
	at := Scheme + s.extension + "/" + k.Name
	if file == "" {
		return at
	}
	for segment := range strings.SplitSeq(file, "/") {
		at += "/" + url.PathEscape(segment)
	}
	return at
}

func (s *Served) entry(k *Skill) Entry {
	e := Entry{Skill: k, URI: s.uri(k, MainFile)}
	raw := rawjson.AppendText([]byte(`{"uri":`), e.URI)
	raw = append(append(append(raw, `,"frontmatter":`...), k.Frontmatter...), `,"resources":[`...)
	spelled := []byte("{")
	for i, f := range k.Files {
		if i > 0 {
			raw = append(raw, ',')
		}
		raw = rawjson.AppendText(append(raw, `{"uri":`...), s.uri(k, f.Path))
		raw = rawjson.AppendText(append(raw, `,"digest":`...), f.Digest)
		raw = append(strconv.AppendInt(append(raw, `,"size":`...), f.Size, 10), '}')
		if f.Hidden == "" {
			continue
		}
		if len(spelled) > 1 {
			spelled = append(spelled, ',')
		}
		spelled = rawjson.AppendText(append(rawjson.AppendText(spelled, f.Path), ':'), f.Hidden)
	}
	e.Raw = append(raw, "]}"...)
	if e.Judged = e.Raw; len(spelled) > 1 {
		e.Judged = rawjson.Set(e.Raw, "hidden", append(spelled, '}'))
	}
	return e
}

// Find returns the skill that a URI lies in, nil if none, and the path of the file or directory within the skill,
// "" for the skill's own directory. Nothing needs to be there.
func (s *Served) Find(uri string) (e *Entry, path string) {
	if s == nil {
		return nil, ""
	}
	rest, ok := strings.CutPrefix(uri, Scheme+s.extension+"/")
	if !ok {
		return nil, ""
	}
	segments := strings.Split(rest, "/")
	for i, raw := range segments {
		segment, err := url.PathUnescape(raw)
		if err != nil || segment == "" || segment == "." || segment == ".." || strings.Contains(segment, "/") {
			return nil, ""
		}
		segments[i] = segment
	}
	i, found := slices.BinarySearchFunc(s.entries, segments[0], func(e Entry, name string) int {
		return strings.Compare(e.Name, name)
	})
	if !found {
		return nil, ""
	}
	return &s.entries[i], strings.Join(segments[1:], "/")
}

// Resources returns the files of a skill as resources/list describes them.
func (s *Served) Resources(e *Entry) (list []json.RawMessage) {
	for _, f := range e.Files {
		list = append(list, s.resource(e, &f))
	}
	return list
}

// Children returns the direct children of a directory of a skill as resources. ok is false if there is no such
// directory.
func (s *Served) Children(e *Entry, dir string) (list []json.RawMessage, ok bool) {
	prefix := ""
	if dir != "" {
		prefix = dir + "/"
	}
	seen := make(map[string]bool)
	for _, f := range e.Files {
		rest, below := strings.CutPrefix(f.Path, prefix)
		if !below {
			continue
		}
		name, _, deeper := strings.Cut(rest, "/")
		switch {
		case !deeper:
			list = append(list, s.resource(e, &f))
		case !seen[name]:
			seen[name] = true
			out := rawjson.AppendText([]byte(`{"uri":`), s.uri(e.Skill, prefix+name))
			out = rawjson.AppendText(append(out, `,"name":`...), name)
			list = append(list, append(out, `,"mimeType":"`+typeDirectory+`"}`...))
		}
	}
	return list, len(list) > 0
}

// Read returns the result of resources/read for a file of a skill, as it was when the skill was read. A file that has
// changed since is an error.
func (s *Served) Read(e *Entry, f *File) (json.RawMessage, error) {
	data, err := s.Content(e.Skill, f)
	if err != nil {
		return nil, err
	}
	out := rawjson.AppendText([]byte(`{"contents":[{"uri":`), s.uri(e.Skill, f.Path))
	out = rawjson.AppendText(append(out, `,"mimeType":`...), f.MIME)
	if f.Text {
		out = rawjson.AppendText(append(out, `,"text":`...), data)
	} else {
		out = append(base64.StdEncoding.AppendEncode(append(out, `,"blob":"`...), data), '"')
	}
	return append(out, "}]}"...), nil
}

// resource returns a file as resources/list describes it.
func (s *Served) resource(e *Entry, f *File) json.RawMessage {
	name, description := path.Base(f.Path), ""
	if f.Path == MainFile {
		name, description = e.Name, e.Description
	}
	out := rawjson.AppendText([]byte(`{"uri":`), s.uri(e.Skill, f.Path))
	out = rawjson.AppendText(append(out, `,"name":`...), name)
	if description != "" {
		out = rawjson.AppendText(append(out, `,"description":`...), description)
	}
	out = rawjson.AppendText(append(out, `,"mimeType":`...), f.MIME)
	return append(strconv.AppendInt(append(out, `,"size":`...), f.Size, 10), '}')
}
