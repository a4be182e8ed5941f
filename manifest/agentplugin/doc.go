// Package agentplugin reads packages of the Agent Plugins format, version 1.0.0: a folder with a plugin.json, and
// beside it an mcp.json and skills/, which package skills reads.
//
//	p := agentplugin.Read("extensions/reports", agentplugin.Options{})
//	for _, s := range p.Servers {
//		fmt.Println(s.ID, s.Valid, s.Reason, s.Section)
//	}
//
// A failure reaches as far as the specification says and no further: an invalid plugin.json rejects the plugin, an
// invalid mcp.json leaves the skills, and an invalid server or skill leaves all others. Each finding names the section
// of the specification that it stems from. Nothing is fetched and nothing is started.
package agentplugin
