import { basename } from "node:path";
import ts from "typescript-5.9";

/** A type that a public signature mentions, and by what. */
export interface Mention {
  readonly type: string;
  readonly by: string;
  /** The package that declares it; `undefined` for the checked one. */
  readonly package?: string;
}

/** What people can name, and what they cannot, of the declaration files that a package's entries are. */
export interface PublicTypes {
  /** Names by entry. */
  readonly names: ReadonlyMap<string, readonly string[]>;
  /** Names that exist at run time. */
  readonly values: readonly string[];
  /** Names of classes that are exported as types alone. */
  readonly classes: readonly string[];
  /** Types of the package that signatures mention and no entry exports. */
  readonly unnamed: readonly Mention[];
  /** Types of other packages. */
  readonly foreign: readonly Mention[];
}

/** Walks the signatures that entries export; `folder` holds the package's declaration files. */
export function readPublicTypes(entries: readonly string[], folder: string): PublicTypes {
  const program = ts.createProgram([...entries], {
    module: ts.ModuleKind.NodeNext,
    moduleResolution: ts.ModuleResolutionKind.NodeNext,
    target: ts.ScriptTarget.ES2023,
    lib: ["lib.es2023.d.ts"],
    types: [],
    strict: true,
    skipLibCheck: true,
    noEmit: true,
    preserveSymlinks: true,
  });
  const checker = program.getTypeChecker();
  const resolve = (symbol: ts.Symbol): ts.Symbol =>
    symbol.flags & ts.SymbolFlags.Alias ? checker.getAliasedSymbol(symbol) : symbol;

  const names = new Map<string, string[]>();
  const exported = new Map<ts.Symbol, { name: string; isValue: boolean }>();
  for (const entry of entries) {
    const file = program.getSourceFile(entry);
    const module = file && checker.getSymbolAtLocation(file);
    if (!module) throw new Error(`${entry} is no module`);
    const symbols = checker.getExportsOfModule(module);
    names.set(
      entry,
      symbols.map(({ name }) => name),
    );
    for (const symbol of symbols)
      exported.set(resolve(symbol), { name: symbol.name, isValue: !isTypeOnly(symbol) });
  }

  const unnamed = new Map<string, Mention>();
  const foreign = new Map<string, Mention>();
  const note = (symbol: ts.Symbol, by: string): void => {
    const found = resolve(symbol);
    const place = found.declarations?.[0]?.getSourceFile().fileName;
    if (found.flags & ts.SymbolFlags.TypeParameter || place === undefined || exported.has(found)) return;
    const other = /.*\/node_modules\/((?:@[^/]+\/)?[^/]+)\//.exec(place)?.[1];
    if (other !== undefined && !place.startsWith(folder))
      foreign.set(`${other} ${found.name}`, { type: found.name, by, package: other });
    else unnamed.set(`${basename(place)} ${found.name}`, { type: found.name, by });
  };

  const walk = (node: ts.Node, by: string, isValue: boolean): void => {
    if (ts.isPrivateIdentifier(node) || isPrivate(node)) return;
    // What only a type is exported of, nobody constructs.
    if (ts.isConstructorDeclaration(node) && !isValue) return;
    const name = nameIn(node);
    const symbol = name && checker.getSymbolAtLocation(name);
    if (symbol) note(symbol, by);
    ts.forEachChild(node, (child) => walk(child, by, isValue));
  };
  for (const [symbol, { name, isValue }] of exported) {
    for (const declaration of symbol.declarations ?? []) {
      if (declaration.getSourceFile().fileName.startsWith(folder)) walk(declaration, name, isValue);
    }
  }
  const isOf = (symbol: ts.Symbol, flag: ts.SymbolFlags) => (symbol.flags & flag) !== 0;
  const all = [...exported].map(([symbol, { name, isValue }]) => ({ symbol, name, isValue }));
  const values = all.filter(({ symbol, isValue }) => isValue && isOf(symbol, ts.SymbolFlags.Value));
  const classes = all.filter(({ symbol, isValue }) => !isValue && isOf(symbol, ts.SymbolFlags.Class));
  const named = (list: readonly { readonly name: string }[]) => list.map(({ name }) => name);
  return {
    names,
    values: named(values),
    classes: named(classes),
    unnamed: [...unnamed.values()],
    foreign: [...foreign.values()],
  };
}

/** The name of the type that a node refers to. `typeof` refers to a value, such as a schema that a type is made from. */
function nameIn(node: ts.Node): ts.Node | undefined {
  if (ts.isTypeReferenceNode(node)) return lastOf(node.typeName);
  if (ts.isImportTypeNode(node)) return node.qualifier && lastOf(node.qualifier);
  return ts.isExpressionWithTypeArguments(node) ? node.expression : undefined;
}

function lastOf(name: ts.EntityName): ts.Node {
  return ts.isQualifiedName(name) ? name.right : name;
}

function isPrivate(node: ts.Node): boolean {
  return (
    ts.canHaveModifiers(node) &&
    (ts.getModifiers(node) ?? []).some(({ kind }) => kind === ts.SyntaxKind.PrivateKeyword)
  );
}

/** Whether an entry exports a name as a type alone. */
function isTypeOnly(symbol: ts.Symbol): boolean {
  const [declaration] = symbol.declarations ?? [];
  if (!declaration) return false;
  if (ts.isExportSpecifier(declaration))
    return declaration.isTypeOnly || declaration.parent.parent.isTypeOnly;
  return ts.isInterfaceDeclaration(declaration) || ts.isTypeAliasDeclaration(declaration);
}
