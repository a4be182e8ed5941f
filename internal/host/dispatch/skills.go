package dispatch

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/exthost/exthost/internal/listing/skills"
	"github.com/exthost/exthost/internal/text/rawjson"
	"github.com/exthost/exthost/manifest"
	"github.com/exthost/exthost/protocol"
)

// ServeSkills answers requests about the skills in the folder of an extension, and adds these skills to the lists of
// its server. Nothing of a skill is run. Skills that policies hold back or the caller's toolset hides are left out.
func ServeSkills(next Deliver) Deliver {
	return func(ctx context.Context, c *Call, params json.RawMessage) (json.RawMessage, error) {
		if c.Target == nil || c.Request.Notify {
			return next(ctx, c, params)
		}
		own := c.Snapshot.Skills[c.Target.Base().ID()]
		method := c.Request.Method
		switch {
		case own == nil:
			return next(ctx, c, params)
		case listsSkills[method] != "":
			return c.listSkills(ctx, next, params, own)
		case !aboutSkills[method]:
			return next(ctx, c, params)
		}
		uri, _ := rawjson.Text(rawjson.Get(params, "uri"))
		e, path := own.Find(uri)
		switch {
		case e != nil:
			return c.answerSkill(own, e, path)
		case !c.serverServes(method):
			return nil, protocol.Errorf(protocol.InvalidArguments, "nothing is served at %q", uri)
		}
		return next(ctx, c, params)
	}
}

// listsSkills has the member of the result with the items, for each list to which the skills of a folder belong.
var listsSkills = map[string]string{
	protocol.MethodSkillsList:        "skills",
	protocol.MethodResourcesList:     "resources",
	protocol.MethodResourceTemplates: "resourceTemplates", // has none of them, but a client of resources asks for it
}

// aboutSkills are the methods whose params name a skill, one of its files or one of its directories.
var aboutSkills = map[string]bool{
	protocol.MethodSkillsGet:            true,
	protocol.MethodResourcesRead:        true,
	protocol.MethodDirectoryRead:        true,
	protocol.MethodResourcesSubscribe:   true,
	protocol.MethodResourcesUnsubscribe: true,
}

// serverServes reports whether the server of the extension may serve a method by itself. A server without a handshake
// lists nothing, as it is left out of lists elsewhere, and may serve all else.
func (c *Call) serverServes(method string) bool {
	u := c.Target.Base()
	if u.Candidate.Manifest.Transport.Protocol != manifest.ProtocolMCP {
		return false
	}
	hs := u.Handshake()
	if hs == nil {
		return listsSkills[method] == ""
	}
	switch method {
	case protocol.MethodSkillsList, protocol.MethodSkillsGet, protocol.MethodDirectoryRead:
		return rawjson.Get(rawjson.Get(hs.Capabilities, "extensions"), protocol.ExtensionSkills) != nil
	}
	return rawjson.Get(hs.Capabilities, "resources") != nil
}

// listSkills answers a list: the first page has the skills of the folder before what the server lists.
func (c *Call) listSkills(ctx context.Context, next Deliver, params json.RawMessage, own *skills.Served,
) (result json.RawMessage, err error) {
	method := c.Request.Method
	member := listsSkills[method]
	if cursor, _ := rawjson.Text(rawjson.Get(params, "cursor")); cursor != "" {
		return next(ctx, c, params)
	}
	var list, more []json.RawMessage
	for _, e := range own.Entries() {
		switch {
		case !c.showsSkill(&e):
		case method == protocol.MethodSkillsList:
			list = append(list, e.Raw)
		case method == protocol.MethodResourcesList:
			list = append(list, own.Resources(&e)...)
		}
	}
	result = json.RawMessage(`{}`)
	if c.serverServes(method) {
		if result, err = next(ctx, c, params); err != nil {
			return nil, err
		}
		_ = json.Unmarshal(rawjson.Get(result, member), &more) // what is no list has no items
		more = slices.DeleteFunc(more, func(item json.RawMessage) bool {
			uri, _ := rawjson.Text(rawjson.Get(item, "uri"))
			e, _ := own.Find(uri)
			return e != nil
		})
	}
	return rawjson.Set(result, member, rawjson.AppendList(nil, append(list, more...))), nil
}

// showsSkill reports whether the caller may see a skill of the folder.
func (c *Call) showsSkill(e *skills.Entry) bool {
	id := c.Target.Base().ID()
	return c.Snapshot.Policies.HoldsSkill(id, e.URI) == nil && c.View.Resource(id, e.URI)
}

// answerSkill answers a request about a skill of the folder. path is that of a file or directory of the skill.
func (c *Call) answerSkill(own *skills.Served, e *skills.Entry, path string) (json.RawMessage, error) {
	id, wrong := c.Target.Base().ID(), protocol.InvalidArguments
	if err := c.Snapshot.Policies.HoldsSkill(id, e.URI); err != nil {
		return nil, err
	}
	f := e.File(path)
	switch c.Request.Method {
	case protocol.MethodSkillsGet:
		if path != skills.MainFile {
			return nil, protocol.Errorf(wrong, "a skill is named by the URI of its %s: %s", skills.MainFile, e.URI)
		}
		return append(append([]byte(`{"skill":`), e.Raw...), '}'), nil
	case protocol.MethodDirectoryRead:
		list, ok := own.Children(e, path)
		if !ok {
			return nil, protocol.Errorf(wrong, "the skill %s of %s has no directory %q", e.Name, id, path)
		}
		return append(rawjson.AppendList([]byte(`{"resources":`), list), '}'), nil
	case protocol.MethodResourcesUnsubscribe:
		return json.RawMessage(`{}`), nil
	case protocol.MethodResourcesSubscribe:
		return nil, protocol.Errorf(wrong, "the files of a skill are not followed one by one: %s announces a change",
			protocol.MethodResourcesListChanged)
	}
	if f == nil {
		return nil, protocol.Errorf(wrong, "the skill %s of %s has no file %q", e.Name, id, path)
	}
	result, err := own.Read(e, f)
	if err != nil {
		return nil, protocol.Errorf(protocol.DescriptorChanged, "%w; exthost reload reads the skill again", err)
	}
	return result, nil
}
