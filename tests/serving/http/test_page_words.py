"""The page for people, in a real browser: sentences, words, corrections and terms."""

from translation_page import NASTY, TEXT, choose, ready, translation, until, wait_for, word, write

# Sentences and words


def test_a_sentence_is_shown_on_both_sides(site):
    marked = "Array.from(document.querySelectorAll('.pointed'), one => one.textContent)"
    with site.open() as page:
        write(page, TEXT)
        word(page, "chiens").hover()
        assert page.evaluate(marked) == ["Dogs run.", "Les chiens courent."]
        box = page.locator("#text").bounding_box()
        page.mouse.move(box["x"] + 25, box["y"] + 25)
        assert page.evaluate(marked) == ["It rains.", "Il pleut."]
        assert page.evaluate("document.querySelector('.sentence.pointed').dataset.part") == "0"
        page.evaluate("at('text').focus(); at('text').setSelectionRange(25, 25)")  # in the last sentence
        wait_for(page, "document.querySelector('.sentence.pointed')?.dataset.part === '4'")


def test_sentences_of_a_wrapped_paragraph_are_found_in_text_and_translation(site):
    line = "The old man who lives in the big house near the river does not like the rain at all, but"
    rest = "his two big dogs and the neighbour's grey cat love it more than anything. It"
    text = f"{line}\n{rest}\nrains."
    site.script.translations[f"{line} {rest}".removesuffix(" It")] = "Le vieil homme " * 8 + "aime la pluie."
    with site.open() as page:
        write(page, text)
        parts = page.evaluate("parts.filter(part => part.src).map(part => [part.of.slice(...part.src), part.text])")
        assert [src for src, _ in parts] == [f"{line}\n{rest}".removesuffix(" It"), "It\nrains."]
        assert [" ".join(tgt.split()) for _, tgt in parts] == ["Le vieil homme " * 8 + "aime la pluie.", "Il pleut."]


def test_what_looks_wrong_is_said(site):
    site.script.faults = {"Dogs run.": ["loop"]}
    site.script.confidences = {"It rains.": 0.25}
    with site.open() as page:
        write(page, "It rains. Dogs run.")
        unsure, looping = page.locator("#checks li").all_inner_texts()
        assert "25 %" in unsure and unsure.endswith(": Il pleut.")
        assert "repeats itself" in looping and looping.endswith(": Les chiens courent.")
        assert page.locator(".flag").count() == 2


def test_uncertain_words_are_marked_by_more_than_colour(site):
    site.script.probabilities = {"chiens": 0.12}
    with site.open() as page:
        write(page, TEXT)
        page.wait_for_selector(".uncertain")
        assert page.locator(".uncertain").all_inner_texts() == ["chiens"]
        assert word(page, "chiens").get_attribute("title") == "The model is not sure of this word: 12 %"
        assert "underline" in word(page, "chiens").evaluate("word => getComputedStyle(word).textDecorationLine")
        assert page.inner_text("#hint") == "1 uncertain word"


def test_another_word_takes_the_rest_of_its_sentence_with_it(site):
    site.script.others = {"chiens": [("chats", 0.25), ("loups", 0.002)]}
    with site.open() as page:
        write(page, TEXT)
        word(page, "chiens").click()
        page.wait_for_selector("#others button")
        rows = page.locator("#others .choice-row").all_inner_texts()
        assert [row.split("\n")[0] for row in rows] == ["chiens", "chats", "loups"]
        assert "25 %" in rows[1] and "< 1 %" in rows[2] and "… and so on." in rows[1]
        page.click("#others button >> nth=0")
        assert translation(page) == "Il pleut. Les chats and so on.\n\nIl pleut."
        assert page.evaluate("document.activeElement.textContent") == "chats"
        page.click("#undo")
        assert translation(page) == "Il pleut. Les chiens courent.\n\nIl pleut."
        assert not page.locator("#undo").is_visible()


def test_another_word_is_chosen_by_keyboard_alone(site):
    site.script.others = {"courent.": [("dorment.", 0.25), ("mangent.", 0.05)]}
    with site.open() as page:
        write(page, "Dogs run.")
        for _ in range(20):
            if page.evaluate("document.activeElement.matches('.word')"):
                break
            page.keyboard.press("Tab")
        page.keyboard.press("End")
        page.keyboard.press("Enter")
        page.wait_for_selector("#others button")
        page.keyboard.press("Escape")
        wait_for(page, "document.activeElement.textContent === 'courent.'")
        wait_for(page, "document.activeElement.ariaExpanded === 'false'")
        page.keyboard.press("Enter")
        page.wait_for_selector("#others button")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("Enter")
        assert translation(page) == "Les chiens mangent. and so on."
        page.keyboard.press("Home")
        assert page.evaluate("document.activeElement.textContent") == "Les"
        page.keyboard.press("Tab")
        assert not page.evaluate("document.activeElement.matches('.word')")  # one stop for all words


def test_a_translation_is_corrected(make_site, tmp_path):
    site = make_site(corrections={"file": str(tmp_path / "corrections.sqlite")})
    text = "It rains. Dogs run. In 2024 it snowed."
    site.script.translations["In 2024 it snowed."] = "Il a neigé."
    with site.open(refused=[400]) as page:
        write(page, text)
        word(page, "chiens").click()
        page.click("#others button:text-is('Correct this sentence')")
        assert page.evaluate("document.activeElement.value") == "Les chiens courent."
        page.keyboard.press("ControlOrMeta+A")
        page.keyboard.type("Des chiens courent.")
        page.fill("#pairs textarea >> nth=0", " ")
        page.fill("#pairs textarea >> nth=2", f"Il a bien neigé en 2023. {NASTY}")
        page.click("#corrections .main")
        wait_for(page, "document.querySelectorAll('.verdict:not(:empty)').length === 3")
        refused, used, kept = page.locator(".verdict").all_inner_texts()
        assert refused.startswith("✕ Not kept: ") and "needs a text and its translation" in refused
        assert used == "✓ Used from now on. Thank you."
        assert kept.startswith("✓ Saved, but not used yet: ") and "2024" in kept
        assert translation(page) == f"Il pleut. Des chiens courent. Il a bien neigé en 2023. {NASTY}"
        page.click("#corrections-close")
        page.fill("#text", "Dogs run.")
        until(page, "Des chiens courent.")
        assert page.locator(".corrected").get_attribute("title") == "Corrected by a user."


def test_nothing_can_be_corrected_where_the_service_takes_no_corrections(site):
    with site.open() as page:
        write(page, TEXT)
        assert not page.locator("#correct").is_visible()
        word(page, "chiens").click()
        page.wait_for_selector("#others p:has-text('Nothing else')")
        assert page.locator("#others button").count() == 0


# Terminology


def test_terms_are_pasted_met_and_kept(site):
    with site.open() as page:
        write(page, "It rains. Dogs run.")
        page.click("#terms summary")
        page.locator("#term-rows input >> nth=0").evaluate(
            """field => {
              const data = new DataTransfer();
              data.setData("text/plain", "Dogs\\tchiens\\r\\nrains\\tneige\\n\\nsnow\\tneige");
              field.dispatchEvent(new ClipboardEvent("paste", {clipboardData: data, bubbles: true, cancelable: true}));
            }"""
        )
        wait_for(page, "document.querySelectorAll('.how.good').length === 1")
        assert page.locator("#term-rows .how").all_inner_texts() == ["✓ met", "✕ not met", ""]
        assert page.inner_text("#n-terms") == "3"
        page.reload()
        ready(page)
        page.click("#terms summary")
        values = page.locator("#term-rows input").evaluate_all("fields => fields.map(field => field.value)")
        assert values == ["Dogs", "chiens", "rains", "neige", "snow", "neige"]
        page.select_option("#target", "ar")
        assert page.inner_text("#n-terms") == ""  # another pair has other terms
        page.select_option("#target", "fr")
        page.click("#term-rows button >> nth=1")
        assert page.inner_text("#n-terms") == "2"


def test_two_tabs_keep_each_others_terms(site):
    with site.open() as one:
        choose(one)
        one.click("#terms summary")
        two = one.context.new_page()
        two.goto(one.url)
        choose(two)
        two.click("#terms summary")
        one.fill("#term-rows input >> nth=0", "Dogs")
        one.fill("#term-rows input >> nth=1", "chiens")
        wait_for(two, "completeTerms().length === 1")
        two.click("#add-term")
        two.fill("#term-rows tr >> nth=1 >> input >> nth=0", "Cats")
        two.fill("#term-rows tr >> nth=1 >> input >> nth=1", "chats")
        wait_for(one, "completeTerms().length === 2")
        assert one.evaluate("completeTerms()") == [["Dogs", "chiens"], ["Cats", "chats"]]


def test_terms_are_met_once_the_language_is_known(site):
    text = "The cat sleeps under the table and the old man reads his newspaper."
    site.script.translations = {text: "Le chat dort."}
    with site.open() as page:
        page.select_option("#source", "auto")
        page.select_option("#target", "fr")
        page.click("#terms summary")
        page.fill("#term-rows input >> nth=0", "cat")
        page.fill("#term-rows input >> nth=1", "chat")
        page.fill("#text", text)
        page.wait_for_selector(".how.good")
        page.select_option("#target", "de")  # through French
        until(page, "LE CHAT DORT.")
