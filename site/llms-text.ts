import type { Page } from "./pages.ts";

/** What language models read: `llms.txt` lists the pages with a sentence each, `llms-full.txt` has them all. */
export function llmsText(pages: readonly Page[], texts: readonly string[]): Record<string, string> {
  const [intro = ""] = texts;
  const list = pages.map(({ target, title }, at) => `- [${title}](/${target}): ${firstSentence(texts[at]!)}`);
  const full = pages.map(({ target }, at) => `<!-- /${target} -->\n\n${texts[at]!.trim()}\n`);
  return {
    "llms.txt": `# agent-control-service\n\n> ${firstSentence(intro)}\n\nAll pages in one file: [llms-full.txt](/llms-full.txt)\n\n## Pages\n\n${list.join("\n")}\n`,
    "llms-full.txt": full.join("\n"),
  };
}

/** Of the first paragraph that is plain text. */
function firstSentence(text: string): string {
  const paragraph = text.split(/\n\s*\n/).find((each) => /^[A-Za-z`*]/.test(each)) ?? "";
  const plain = paragraph.replace(/\s+/g, " ").replace(/\[([^\]]*)\]\([^)]*\)/g, "$1");
  return /^.*?[.:?](?= |$)/.exec(plain)?.[0].replace(/:$/, ".") ?? plain;
}
