import { MimeModel, type IRenderMimeRegistry } from '@jupyterlab/rendermime';
import type { IRenderMime } from '@jupyterlab/rendermime-interfaces';
import { PanelLayout } from '@lumino/widgets';
import { enliven, quietOptions, splitMarkdown } from '../markdown';
import type { TextBlock } from '../protocol';
import { View } from './view';

interface Piece {
  source: string;
  renderer: IRenderMime.IRenderer;
}

/** Markdown. While it streams only the changed piece is rendered again; once whole, it is rendered as one. */
export class TextView extends View {
  private pieces: Piece[] = [];
  private readonly column = new PanelLayout();

  constructor(
    private readonly rendermime: IRenderMimeRegistry,
    private readonly options: IRenderMime.IRendererOptions
  ) {
    super();
    this.addClass('cu-text');
    this.layout = this.column;
  }

  async draw(block: TextBlock): Promise<void> {
    this.toggleClass('cu-note', block.tone === 'note');
    const whole = block.markdown.trim();
    if (block.state === 'closed' && this.pieces.length > 1) {
      await this.replaceAll(whole);
      return;
    }
    const sources = block.state === 'closed' ? [whole] : splitMarkdown(block.markdown);
    for (const [index, source] of sources.entries()) {
      await this.drawPiece(index, source);
    }
    this.pieces.splice(sources.length).forEach(piece => {
      piece.renderer.dispose();
    });
  }

  private async drawPiece(index: number, source: string): Promise<void> {
    let piece = this.pieces[index];
    if (piece?.source === source) {
      return;
    }
    if (!piece) {
      piece = { source, renderer: this.createRenderer() };
      this.pieces.push(piece);
      this.column.addWidget(piece.renderer);
    }
    piece.source = source;
    await this.render(piece);
  }

  /** Links between pieces (references, footnotes) work in one rendering only; swapped in when ready: no flicker. */
  private async replaceAll(source: string): Promise<void> {
    const piece = { source, renderer: this.createRenderer() };
    await this.render(piece);
    const old = this.pieces;
    this.pieces = [piece];
    this.column.addWidget(piece.renderer);
    old.forEach(each => {
      each.renderer.dispose();
    });
  }

  private async render({ source, renderer }: Piece): Promise<void> {
    await renderer.renderModel(new MimeModel({ data: { 'text/markdown': source }, trusted: false }));
    enliven(renderer.node, this.options.resolver);
    // Each block runs its own way: one paragraph may be Arabic, the next Japanese.
    for (const block of renderer.node.children) {
      (block as HTMLElement).dir = block.localName === 'pre' ? 'ltr' : 'auto';
    }
  }

  private createRenderer(): IRenderMime.IRenderer {
    const factory = this.rendermime.getFactory('text/markdown');
    if (!factory) {
      throw new Error('no markdown renderer');
    }
    return factory.createRenderer(quietOptions(this.options));
  }
}
