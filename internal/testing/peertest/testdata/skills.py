"""FastMCP's client of skills (SEP-2640): lists the skills at the URL in argv[1], gets each, reads
and verifies every file, and prints the URIs of the files by skill."""

import asyncio
import base64
import hashlib
import json
import sys

from fastmcp import Client
from fastmcp.skills import SkillsClientExtension


async def main():
    read = {}
    async with Client(sys.argv[1], extensions=[SkillsClientExtension()]) as client:
        for skill in await client.list_skills():
            assert await client.get_skill(skill.uri) == skill, skill.uri
            read[skill.uri] = []
            for file in skill.resources:
                (content,) = await client.read_resource(file.uri)
                text = getattr(content, "text", None)
                data = text.encode() if text is not None else base64.b64decode(content.blob)
                assert len(data) == file.size, file.uri
                assert "sha256:" + hashlib.sha256(data).hexdigest() == file.digest, file.uri
                read[skill.uri].append(file.uri)
    print(json.dumps(read))


asyncio.run(main())
