import { readFileSync, writeFileSync } from "node:fs";
import { join } from "node:path";

/** Writes `contract.pdf` from `contract.txt`, whose pages have lines of dashes between them. */
const folder = import.meta.dirname;
const pages = readFileSync(join(folder, "contract.txt"), "utf8").trimEnd().split("\n-----\n");
writeFileSync(join(folder, "contract.pdf"), toPdf(pages.map((page) => page.split("\n"))));

/** A PDF of A4 pages with lines of text; numbered titles are bold. */
function toPdf(pages: readonly (readonly string[])[]): Buffer {
  const kids = pages.map((_, at) => `${5 + at * 2} 0 R`).join(" ");
  const bodies = [
    "<< /Type /Catalog /Pages 2 0 R >>",
    `<< /Type /Pages /Kids [${kids}] /Count ${pages.length} >>`,
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>",
    "<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica-Bold >>",
    ...pages.flatMap((lines, at) => {
      const content = `BT 18 TL 64 770 Td\n${lines.map(toLine).join("\n")}\nET`;
      const fonts = "/Resources << /Font << /F1 3 0 R /F2 4 0 R >> >>";
      return [
        `<< /Type /Page /Parent 2 0 R /MediaBox [0 0 595 842] /Contents ${6 + at * 2} 0 R ${fonts} >>`,
        `<< /Length ${content.length} >>\nstream\n${content}\nendstream`,
      ];
    }),
  ];
  let text = "%PDF-1.4\n";
  const offsets = bodies.map((body, at) => {
    const offset = text.length;
    text += `${at + 1} 0 obj\n${body}\nendobj\n`;
    return `${String(offset).padStart(10, "0")} 00000 n \n`;
  });
  const size = bodies.length + 1;
  const end = `trailer\n<< /Size ${size} /Root 1 0 R >>\nstartxref\n${text.length}\n%%EOF\n`;
  return Buffer.from(`${text}xref\n0 ${size}\n0000000000 65535 f \n${offsets.join("")}${end}`, "latin1");
}

function toLine(line: string): string {
  const font = /^(\d+\. |[A-Z ]+$)/.test(line) ? "/F2 13 Tf" : "/F1 11 Tf";
  return `${font} (${line.replace(/[\\()]/g, "\\$&")}) Tj T*`;
}
