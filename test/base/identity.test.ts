import { describe, expect, it } from "vitest";
import { toAgentId, toSlug } from "../../src/core/agents/identity.ts";

describe("agent identity", () => {
  it.each([
    ["My Agent", "gJRc8NwjQumRVhej8XnCz2"],
    ["competitor_summary", "bwNtj65WC3SYoEGN6rpAWU"],
  ])("the id of %j is %s", (name, id) => {
    const found = toAgentId(name);

    expect(found).toBe(id);
  });

  it("an id always has 22 characters of the base 57 alphabet", () => {
    const ids = Array.from({ length: 200 }, (_, index) => toAgentId(`agent ${index}`));

    for (const id of ids) expect(id).toMatch(/^[2-9A-HJ-NP-Za-km-z]{22}$/);
  });

  it("a name that is a URL gets a different id than the same text in the DNS namespace", () => {
    const url = toAgentId("https://example.com/agent");

    expect(url).not.toBe(toAgentId("example.com/agent"));
  });

  it.each([
    ["Invoice Auditor", "invoice-auditor"],
    ["  Déjà  vu! ", "deja-vu"],
    ["competitor_summary", "competitor-summary"],
    ["Ünïcode — Agent №5", "unicode-agent-no5"],
  ])("the slug of %j is %s", (name, slug) => {
    const found = toSlug(name);

    expect(found).toBe(slug);
  });
});
